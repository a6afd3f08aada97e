#!/usr/bin/python3
"""Runs cold_open_bucket against a real server on loopback, once as it is and once with a latency before each request. Prints JSON.

    bench/cold_open_bucket.py radosgw --bytes 1000000000 --delay-ms 20 [--program build/bin/bench/cold_open_bucket] [--folder .]

The delay is one of the way to the server: every byte a client sends arrives so much later, and nothing limits how many bytes are under way.
"""
import argparse
import asyncio
import json
import os
import pathlib
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "process"))
from bucket_servers import Azurite, Radosgw  # noqa: E402

CHUNK = 1 << 20


class DelayProxy:
    """Hands bytes on; those to the server `seconds` later than they came."""

    def __init__(self, port, seconds):
        self.to, self.seconds, self.port = port, seconds, None
        self.loop = asyncio.new_event_loop()
        begun = threading.Event()

        async def begin():
            server = await asyncio.start_server(self.client, "127.0.0.1", 0, limit=CHUNK)
            self.port = server.sockets[0].getsockname()[1]
            begun.set()
        self.loop.create_task(begin())
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        begun.wait()

    async def client(self, reader, writer):
        above, to = await asyncio.open_connection("127.0.0.1", self.to, limit=CHUNK)
        waiting = asyncio.Queue()

        async def take():
            while data := await reader.read(CHUNK):
                waiting.put_nowait((self.loop.time() + self.seconds, data))
            waiting.put_nowait((0, b""))

        async def hand_on():
            while (entry := await waiting.get())[1]:
                await asyncio.sleep(max(0, entry[0] - self.loop.time()))
                to.write(entry[1])
                await to.drain()
            to.close()

        async def back():
            while data := await above.read(CHUNK):
                writer.write(data)
                await writer.drain()
            writer.close()
        await asyncio.gather(take(), hand_on(), back(), return_exceptions=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("server", choices=["radosgw", "azurite"])
    options.add_argument("--bytes", type=int, default=1_000_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--commits", type=int, default=2_000)
    options.add_argument("--at-once", type=int, help="parts of the snapshot; otherwise as the product has it")
    options.add_argument("--delay-ms", type=float, default=20)
    options.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "bin" / "bench" / "cold_open_bucket")
    options.add_argument("--folder", type=pathlib.Path, default=pathlib.Path.cwd())
    given = options.parse_args()
    out = {}
    at_once = ["--at_once", str(given.at_once)] if given.at_once else []
    for name, delay in (("loopback", 0), (f"{given.delay_ms:g} ms", given.delay_ms)):
        with {"radosgw": Radosgw, "azurite": Azurite}[given.server](None) as server:
            port = DelayProxy(server.port, delay / 1000).port if delay else server.port
            done = subprocess.run([given.program, "--url", server.url("bench", port), "--near", server.url("bench"), "--bytes", str(given.bytes), "--rounds",
                                   str(given.rounds), "--commits", str(given.commits), "--folder", given.folder, *at_once],
                                  env={**os.environ, **server.environment()}, stdout=subprocess.PIPE, text=True, check=True)
            out[name] = json.loads(done.stdout)
    json.dump(out, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
