"""A machine comes back when the log was trimmed past its place (fence.md, "Takeover", rule 4): the dialogue's A, killed with three pending commits of which one
landed, while B writes on until two snapshots stand above A's place and everything below the older one is gone.

  * B wrote: the closed-epoch table says that one of the three landed. It is in the database once, and salvage holds the other two, not three.
  * B took over and only made snapshots of what it found: the newer snapshot is the state after A's landed commit, so A goes on from it, rebuilds nothing, and its
    other two commits are sent.
"""

from bucket_support import BucketHome, main_where
from harness import Worker, check, url
from support import exported_numbers, numbers, one_claim_to_an_epoch, salvage, synced, token
from takeover_dialogue import PENDING, UNLANDED, Dialogue, name, two_unlanded_in_salvage

SNAPSHOT_AFTER = 16 << 10
ROW_BYTES = 4000
MOST_ROWS = 2000
MOST_SNAPSHOTS = 60


def trimmed(story, place):
    """Nothing stands for the records behind that offset any more: the packs that are left begin above its object."""
    if isinstance(story.home, BucketHome):
        packs = [key.rpartition("/")[2] for key in story.home.server.client().keys(f"{story.home.prefix}/app/@pack/")]
    else:
        packs = sorted(path.name for path in (story.home / "app" / "@pack").iterdir()) if (story.home / "app" / "@pack").is_dir() else []
    return bool(packs) and int(packs[0].split("-")[0]) > int(place.split(".")[1])


def left_behind(root):
    story = Dialogue(root)
    place = root.onepen_json("status", "app", "--home", url(story.home))["tail"]
    story.a.kill()
    return story, place


def b_wrote(root):
    story, place = left_behind(root)
    b = Worker(root)
    b.open(name(story.home, root.cache(), snapshot_after=SNAPSHOT_AFTER))
    check(numbers(b) == story.before + [PENDING[0]], "B sees what was acknowledged and the one that landed", numbers(b)[-3:])
    rows = 0
    while not trimmed(story, place):
        check(rows < MOST_ROWS, "the log is never trimmed", place)
        for _ in range(20):
            rows += 1
            b.sql("INSERT INTO t VALUES(?, 'B', randomblob(?))", 2000 + rows, ROW_BYTES)
        synced(b)
    tokens = [story.token, token(b)]
    check(b.quit() == 0, "B ends in good order")
    again = story.reopen()
    check(numbers(again) == story.before + [PENDING[0]] + [2001 + i for i in range(rows)], "A's database is the stream", numbers(again)[-3:])
    two_unlanded_in_salvage(root, story)
    why = salvage(root, story.cache)[0].manifest["why"]
    check("was trimmed up to" in why and "epoch 7 was closed at sequence 42, so 1 of its 3 commits landed" in why, "the manifest says what decided it", why)
    tokens.append(token(again))
    again.quit()
    one_claim_to_an_epoch(root, story.home, tokens)
    print(f"trimmed_place: B wrote {rows} rows: {why}")


def b_only_made_snapshots(root):
    story, place = left_behind(root)
    cache = root.cache()
    for turn in range(MOST_SNAPSHOTS):
        if trimmed(story, place):
            break
        code, out, err = root.onepen("snapshot", "app", "--home", url(story.home), "--cache-root", str(cache), "--write")
        check(code == 0, "onepen snapshot", out, err)
    else:
        check(False, "the log is never trimmed", place)
    again = story.reopen()
    check(not salvage(root, story.cache), "nothing goes to salvage: nobody committed", [str(one.folder) for one in salvage(root, story.cache)])
    synced(again)
    check(numbers(again) == story.before + list(PENDING), "all three are there", numbers(again)[-4:])
    again.quit()
    check(exported_numbers(root, story.home) == story.before + list(PENDING), "and in the stream, once each", UNLANDED)
    print(f"trimmed_place: snapshots only, {turn} of them: A went on from one, and its 2 unlanded commits were sent")


def test(root):
    b_wrote(root)
    b_only_made_snapshots(root)


if __name__ == "__main__":
    main_where(test, "trimmed_place")
