"""One claim in two places: copied cache roots, images of machines, forks, backups of a home put back, a stream deleted and made again.

Each ends in the refusal or reset that the design names, with every acknowledged commit in the stream or in salvage, and no two processes were ever
acknowledged under one epoch.
"""

from bucket_support import BucketHome, OutOfReach, held_create, keep, main_where, movable_home, new_home, put_back
from harness import Failure, SqlError, Worker, check, reset_kind, uri, url
from support import (NOT_NOTICED_MS, check_reset, commits, copy_of, exported_numbers, local, numbers, one_claim_to_an_epoch, put, refused_synced, salvage, synced, table,
                     token)


def opened(root, home, cache, env=None, **parameters):
    worker = Worker(root, env=env)
    worker.open(local("app", home, cache, notice_within=NOT_NOTICED_MS, **parameters))
    return worker


def salvaged_numbers(root, cache, *kinds):
    """What is in the salvage of a cache: the numbers of all its databases, which must be of these kinds."""
    found = salvage(root, cache)
    for one in found:
        check(one.kind in kinds, f"salvage of kind {one.kind}", str(one.folder), one.manifest)
    return sorted({row[0] for one in found for row in one.rows("SELECT n FROM t")})


def copied_cache(root):
    """cp -a of a cache root under a live owner with pending commits, opened at another place: the last to open wins, and nothing is lost or doubled."""
    home, cache = new_home(root), root.cache()
    here, hold = held_create(root, home, landed=False)
    old = opened(root, here, cache, env=hold.environment())
    table(old)
    put(old, 1, 2, who="old")
    synced(old)
    hold.arm()
    put(old, 3, 4, who="old")
    hold.wait()  # nothing of 3 and 4 has reached the home
    copied = copy_of(root, cache)
    new = opened(root, here, copied)
    check(numbers(new) == [1, 2, 3, 4], "the copy brings the pending commits along", numbers(new))
    synced(new)
    put(new, 5, who="new")
    synced(new)
    tokens = [token(old), token(new)]
    hold.let_go()
    refused_synced(old, "fenced")
    check_reset(old, "fenced")
    old.quit()
    again = opened(root, here, cache)
    check(numbers(again) == [1, 2, 3, 4, 5], "the same commits sent by the copy are recognised as the own ones", numbers(again))
    check(not salvage(root, cache), "nothing of it is in salvage", [str(one.folder) for one in salvage(root, cache)])
    tokens.append(token(again))
    again.quit()
    new.quit()
    check(exported_numbers(root, home) == [1, 2, 3, 4, 5], "each commit is in the stream once")
    one_claim_to_an_epoch(root, home, tokens)
    print("copies: a copied cache root sends the pending commits once, under its own epoch; the original is fenced and recognises them as its own")


def machine_resumed_twice(root):
    """Two processes on copies of one cache root, both opened offline, both going live: one claim wins, the other one's commits are in salvage."""
    home, cache = movable_home(root), root.cache()
    first = opened(root, home, cache)
    table(first)
    put(first, 1)
    synced(first)
    first.quit()
    caches = [cache, copy_of(root, cache)]
    with OutOfReach(root, home):
        pair = [opened(root, home, each, offline=1) for each in caches]
        for worker, number in zip(pair, (11, 21)):
            put(worker, number, number + 1, who="resumed")
    outcomes = []
    for worker in pair:  # both go live now, in whichever order
        worker.send("sql", sql="SELECT onepen_synced()")
    for worker in pair:
        try:
            outcomes.append(worker.answer()["rows"][0][0])
        except SqlError:
            outcomes.append(None)
    check(sum(offset is not None for offset in outcomes) == 1, "exactly one of the two goes on", [worker.status() for worker in pair])
    winner, loser = (pair[0], pair[1]) if outcomes[0] else (pair[1], pair[0])
    kept = 11 if winner is pair[0] else 21
    check_reset(loser, "fenced")
    put(winner, 31, who="winner")
    synced(winner)
    tokens = [token(winner)]
    loser.quit()
    again = opened(root, home, caches[pair.index(loser)])
    check(numbers(again) == [1, kept, kept + 1, 31], "the loser's machine has the winner's history", numbers(again))
    lost = 21 if kept == 11 else 11
    check(set(salvaged_numbers(root, caches[pair.index(loser)], "fenced")) >= {lost, lost + 1}, "the loser's commits are in salvage")
    tokens.append(token(again))
    again.quit()
    winner.quit()
    check(exported_numbers(root, home) == [1, kept, kept + 1, 31], "the stream holds one history")
    one_claim_to_an_epoch(root, home, tokens)
    print("copies: a machine resumed twice: one goes on by its own claim, the other is fenced, its commits are in salvage")


def restored_image(root):
    """A cache root as it was some time ago, with pending commits that have landed since, is put back: it catches up, and knows its own commits."""
    home, cache = new_home(root), root.cache()
    here, hold = held_create(root, home, landed=False)
    worker = opened(root, here, cache, env=hold.environment())
    table(worker)
    put(worker, 1)
    synced(worker)
    hold.arm()
    put(worker, 2, 3)
    hold.wait()
    image = copy_of(root, cache)
    hold.let_go()
    synced(worker)
    put(worker, 4, 5)
    synced(worker)
    tokens = [token(worker)]
    worker.quit()
    put_back(cache, image)
    again = opened(root, here, cache)
    check(numbers(again) == [1, 2, 3, 4, 5], "an image of yesterday catches up", numbers(again))
    check(not salvage(root, cache), "its pending commits had landed: nothing to salvage", [str(one.folder) for one in salvage(root, cache)])
    put(again, 6)
    synced(again)
    tokens.append(token(again))
    again.kill()
    # The same under a live owner: other files stand where its own were. It holds its own ones open, and goes on in them and in the stream.
    live = opened(root, here, cache)
    put(live, 7)
    synced(live)
    tokens.append(token(live))
    put_back(cache, image)
    put(live, 8)
    synced(live)
    check(numbers(live) == [1, 2, 3, 4, 5, 6, 7, 8] and reset_kind(live.status()) is None, "a live owner reads and writes the files it holds", live.status())
    # Whoever opens what was put back is another process with another copy: it catches up and fences the one that lives.
    again = opened(root, here, cache)
    check(numbers(again) == [1, 2, 3, 4, 5, 6, 7, 8], "it catches up once more", numbers(again))
    put(again, 9)
    synced(again)
    tokens.append(token(again))
    refused_synced(live, "fenced")
    check_reset(live, "fenced")
    live.refused("INSERT INTO t VALUES(10, 'live', x'00')")
    live.quit()  # touches no file of the other one
    check(not salvage(root, cache), "nothing was pending", [str(one.folder) for one in salvage(root, cache)])
    put(again, 11)
    synced(again)
    again.quit()
    check(exported_numbers(root, home) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 11], "each commit is in the stream once, and nothing that was refused")
    one_claim_to_an_epoch(root, home, tokens)
    print("copies: an older image of a cache root catches up; its pending commits, landed since, are recognised. Put back under a live owner, it is another copy, and fences it")


def forked(root):
    """A child of an owner with pending commits is refused, sends nothing, and takes nothing from its parent."""
    home, cache = new_home(root), root.cache()
    here, hold = held_create(root, home, landed=False)
    parent = opened(root, here, cache, env=hold.environment())
    table(parent)
    put(parent, 1)
    synced(parent)
    hold.arm()
    put(parent, 2, 3)
    hold.wait()
    got = parent.ask("fork", statements=["INSERT INTO t VALUES(9, 'child', x'00')", "SELECT onepen_error()", "SELECT onepen_synced()", "SELECT count(*) FROM t"])
    write, sentence, confirmed, read = got["told"]
    check(not write["ok"] and not confirmed["ok"] and not read["ok"], "a child can neither write nor read nor confirm", got)
    check("fork()" in sentence["rows"][0][0], "the sentence names fork()", sentence)
    hold.let_go()
    synced(parent)
    check(numbers(parent) == [1, 2, 3], "the parent goes on", numbers(parent))
    tokens = [token(parent)]
    parent.quit()
    check(exported_numbers(root, home) == [1, 2, 3], "its commits are in the stream, once")
    check(len(commits(home)) == 5, "and nothing of the child: the new database, the table, three rows", len(commits(home)))
    one_claim_to_an_epoch(root, home, tokens)
    print("copies: a forked child of an owner with pending commits is refused; the parent sends them once")


def refused_open(name, worker):
    """The sentence of an opening that must be refused."""
    try:
        worker.open(name)
    except SqlError:
        return worker.sentence()
    raise Failure(f"a stream that lost commits was opened: {worker.status()}")


def home_put_back(root):
    """cp -a of a home, commits, and the backup put back under the live owner: it may not go on as if nothing had happened, until somebody says adopt."""
    home, cache = new_home(root), root.cache()
    owner = opened(root, home, cache)
    table(owner)
    put(owner, *range(1, 11))
    synced(owner)
    backup = keep(root, home)
    put(owner, *range(11, 21))
    synced(owner)
    tokens = [token(owner)]
    other = Worker(root)
    if isinstance(home, BucketHome):
        # There an owner that runs does not look at the object before its own (docs/limits.md): it is stopped first. Its machine knows what is missing.
        owner.quit()
        put_back(home, backup)
        sentence, kept = refused_open(local("app", home, cache), owner := Worker(root)), range(11, 21)
        owner.quit()
        kind, said = "none: it was stopped", sentence
    else:
        put_back(home, backup)
        put(owner, 21)   # local: it is taken here
        sentence, kept = refused_synced(owner), range(11, 22)
        kind = reset_kind(owner.status())
        check_reset(owner, "diverged")
        owner.quit()
        # Whoever opens now is told the same, also from a machine that knows nothing of it.
        said = refused_open(uri("app", home, root.cache()), other)
    check("onepen adopt" in sentence and "adopt" in said, "the sentence must say what happened and what to do", sentence, said)
    code, out, err = root.onepen("adopt", "app", "--home", url(home), "--yes")
    check(code == 0, f"onepen adopt ended with {code}", out, err)
    other.open(uri("app", home, root.cache()))
    check(numbers(other) == list(range(1, 11)), "after adopt the stream is the backup's", numbers(other))
    put(other, 101, who="after adopt")
    synced(other)
    tokens.append(token(other))
    check(tokens[0][0] != tokens[1][0], "adopt makes a new incarnation", tokens)
    check(tokens[1][1] > tokens[0][1], "epochs go on rising", tokens)
    other.quit()
    again = opened(root, home, cache)
    check(numbers(again) == [*range(1, 11), 101], "the old owner's machine has the adopted history", numbers(again))
    there = salvaged_numbers(root, cache, "rewound")
    check(set(there) >= set(kept), "what the backup lacks, acknowledged or not, is in the salvage of the machine that had it", there)
    put(again, 102)
    synced(again)
    tokens.append(token(again))
    again.quit()
    one_claim_to_an_epoch(root, home, tokens)
    print(f"copies: a backup of the home put back under a live owner: reset {kind}: {sentence}")
    print(f"copies: … and for others until adopt: {said}")


def deleted_and_made_again(root):
    """The stream is deleted under a live owner, and made again by another process: the old one is told `removed`, and none of its commits gets into the new one."""
    for when in ("before", "after"):
        home, cache = new_home(root), root.cache()
        owner = opened(root, home, cache)
        table(owner)
        put(owner, 1, 2)
        synced(owner)
        tokens = [token(owner)]
        code, out, err = root.onepen("delete", "app", "--home", url(home), "--yes")
        check(code == 0, f"onepen delete ended with {code}", out, err)
        if when == "before":  # it notices before anybody made the name again
            put(owner, 3)
            sentence = refused_synced(owner)
            check_reset(owner, "removed")
        new = opened(root, home, root.cache())
        table(new)
        check(numbers(new) == [], "a name that was deleted is made empty", numbers(new))
        put(new, 101)
        synced(new)
        tokens.append(token(new))
        check(tokens[0][0] != tokens[1][0] and tokens[1][1] > tokens[0][1], "a new incarnation, and epochs go on rising", tokens)
        if when == "after":
            put(owner, 3)
            sentence = refused_synced(owner)
            check_reset(owner, "removed")
        put(new, 102)
        synced(new)
        check(token(new) == tokens[1], "the new owner is undisturbed")
        owner.quit()
        new.quit()
        again = opened(root, home, cache)
        check(numbers(again) == [101, 102], "the old machine has the new stream", numbers(again))
        kept = salvaged_numbers(root, cache, "rewound")
        check(set(kept) >= {1, 2, 3}, "what it had of the deleted one is in salvage", kept)
        tokens.append(token(again))
        again.quit()
        check(exported_numbers(root, home) == [101, 102], "nothing of the old stream is in the new one")
        one_claim_to_an_epoch(root, home, tokens)
        print(f"copies: deleted and made again, noticed {when} that: {sentence}")


def test(root):
    for story in (copied_cache, machine_resumed_twice, restored_image, forked, home_put_back, deleted_and_made_again):
        story(root)


main_where(test, "copies")
