"""What the tests of the checks share: a small tree of files, on which a check is green until one of them is written over."""
import tempfile
import unittest
from pathlib import Path


class SmallTree(unittest.TestCase):
    checks = {}  # by name: a function from a root to its complaints

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name) / "tree"

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def broken(self, check, name, text):
        self.assertEqual([], self.checks[check](self.root), "green before the break")
        self.write(name, text)
        self.assertNotEqual([], self.checks[check](self.root), "red after it")
