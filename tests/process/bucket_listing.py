"""Long listings of real servers: more names than one answer holds, so that the client goes on by continuation tokens (S3) or markers (Azure), and names in the
folders of a database that are nobody's, which are passed over: they neither end the log nor hide what lies behind them.

    bucket_listing.py radosgw|azurite
"""

import concurrent.futures

from bucket_support import WHERE, main_where, new_home
from harness import Worker, check, uri, url

PAGE = {"radosgw": 1000, "azurite": 5000}[WHERE]
MORE = PAGE + 100
HANDS = 4


def foreign(home, name):
    """So many objects of the database's folder, whose names are `name` and a number."""
    def put(part):
        client = home.server.client()
        for number in range(part, MORE, HANDS):
            status = client.put(f"{home.prefix}/app/{name}{number:05}", b"")[0]
            check(status in (200, 201), "a foreign object could not be put", status)
        client.close()
    with concurrent.futures.ThreadPoolExecutor(HANDS) as pool:
        list(pool.map(put, range(HANDS)))


def seen(root, home, rows, what):
    """By a machine that knows nothing yet, and by the commands."""
    worker = Worker(root)
    worker.open(uri("app", home, root.cache(), mode="ro"))
    check(worker.value("SELECT count(*) FROM t") == rows, f"{what}: a reader sees every commit", worker.value("SELECT count(*) FROM t"), rows)
    worker.quit()
    code, out, err = root.onepen("verify", "app", "--home", url(home))
    check(code == 0, f"{what}: onepen verify ended with {code}", out, err)
    listed = root.onepen_json("list", "--home", url(home))
    check(listed["databases"] == ["app"], f"{what}: one database is listed", listed)


def test(root):
    home = new_home(root)
    machine = home.through(root.proxy.listen("machine"))
    cache, rows = root.cache(), 0

    def writes(count):
        nonlocal rows
        worker = Worker(root)
        worker.open(uri("app", machine, cache))
        worker.sql("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY)")
        for _ in range(count):
            rows += 1
            worker.sql("INSERT INTO t VALUES(?)", rows)
        check(worker.quit() == 0, "it ends in good order")

    writes(5)
    foreign(home, "@log/zz-")    # behind every id
    foreign(home, "@snap/zz-")   # and among the snapshots, of which a cold open lists all
    writes(5)
    seen(root, machine, rows, "foreign names behind the log")
    foreign(home, f"@log/{home.ids()[2]:020}-")   # between two ids
    writes(5)
    seen(root, machine, rows, "foreign names in the middle of the log")
    tokens = [entry for entry in root.proxy.log() if "continuation-token=" in entry["target"] or "&marker=" in entry["target"]]
    check(len(tokens) >= 2, "no listing went on behind its first page", len(tokens))
    ids = home.ids()
    check(ids == list(range(1, len(ids) + 1)), "the log has no hole", ids)
    print(f"bucket_listing ({WHERE}): {rows} commits among {3 * MORE} names that are nobody's; {len(tokens)} requests went on behind a first page")


main_where(test, "bucket_listing")
