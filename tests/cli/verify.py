"""`onepen verify` over a log that was trimmed: whatever is kept and not what was written is found, and named."""

import os
import shutil
import time

from cases import check, run
from harness import HANG_SECONDS, Worker, uri, url

OK, DAMAGED = 0, 7


class Verify:
    def __init__(self, root):
        self.root = root
        self.home = root.home_folder()

    def files(self, kind):
        return sorted(path for path in (self.home / "app" / kind).rglob("*") if path.is_file())

    def make(self):
        """Two snapshots, a pack, and between them objects that only whoever goes back needs."""
        self.root.onepen("sql", "app", "--write", "CREATE TABLE first(x)", "--home", url(self.home), "--cache-root", self.root.cache())
        worker = Worker(self.root, hooks=False)
        worker.open(uri("app", self.home, self.root.cache(), durability="local", snapshot_after="100K"))
        worker.sql("CREATE TABLE t(id INTEGER PRIMARY KEY, body TEXT)")
        deadline = time.monotonic() + HANG_SECONDS
        while not (len(self.files("@mark")) > 0 and self.snapshots() == 2 and all(path.name != f"{2:020}" for path in self.files("@log"))):
            check(time.monotonic() < deadline, "the log must be trimmed in time", self.files("@pack"), self.files("@mark"), self.snapshots())
            for _ in range(20):
                worker.sql("INSERT INTO t(body) VALUES (?)", "x" * 300)
            worker.sql("SELECT onepen_synced()")
        worker.quit()

    def snapshots(self):
        folder = self.home / "app/@snap"
        return sum((path / "head").exists() for path in folder.iterdir()) if folder.exists() else 0

    def verify(self):
        return self.root.onepen("verify", "app", "--home", url(self.home), "--cache-root", self.root.cache())

    def case_every_hole_is_found(self):
        self.make()
        code, out, err = self.verify()
        check(code == OK and "what the log makes there" in out and "begins with" in out, "whole, and the newer snapshot was checked against the log", out, err)
        whole = self.root.path / "whole"
        shutil.copytree(self.home, whole)

        def flip(path):
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)

        log = self.files("@log")
        newest = int(sorted(path.name for path in (self.home / "app/@snap").iterdir())[-1].split("-")[0])
        kept = [path for path in log[2:] if int(path.name) < newest]  # below the newest snapshot: nobody who opens needs them
        check(len(kept) > 2, "objects between the snapshots", [path.name for path in log])
        between = kept[len(kept) // 2]
        damages = {
            "an object between the snapshots is gone": (lambda: between.unlink(), "/@log/"),
            "one is another": (lambda: flip(between), between.name),
            "the oldest that is kept is gone": (lambda: kept[0].unlink(), "damaged"),
            "the first claim is gone": (lambda: log[0].unlink(), "the claim of epoch 1 is missing"),
            "the claim of now is gone": (lambda: log[1].unlink(), log[1].name),
            "the newest mark is gone": (lambda: self.files("@mark")[-1].unlink(), "damaged"),
            "a pack is gone": (lambda: self.files("@pack")[-1].unlink(), "damaged"),
            "a pack is another": (lambda: flip(self.files("@pack")[-1]), "@pack"),
        }
        for snapshot in (0, 1):
            part = [path for path in self.files("@snap") if path.name.startswith("part")][snapshot]
            damages[f"a part of snapshot {snapshot} is gone"] = (part.unlink, part.parent.name)
            damages[f"a part of snapshot {snapshot} is another"] = (lambda part=part: flip(part), part.parent.name)
        for what, (damage, word) in damages.items():
            damage()
            code, out, err = self.verify()
            check(code == DAMAGED and out == "" and word in err, f"{what}: verify must end with {DAMAGED} and name {word}", code, out, err)
            shutil.rmtree(self.home / "app")
            shutil.copytree(whole / "app", self.home / "app")
            for path in [self.home / "app", *(self.home / "app").rglob("*")]:
                self.root.give(path)
        code, out, err = self.verify()
        check(code == OK, "and it is whole again", out, err)

    def case_verify_leaves_nothing(self):
        self.make()
        cache = self.root.cache()
        code, _, err = self.root.onepen("verify", "app", "--home", url(self.home), "--cache-root", cache)
        check(code == OK and not [name for name in os.listdir(cache) if name.startswith("verify-")], "no scratch folder stays", err, os.listdir(cache))


if __name__ == "__main__":
    run(Verify, "cli-verify")
