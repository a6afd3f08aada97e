"""A fault proxy before a bucket server: HTTP/1.1 on loopback, one process, told by its test what to do with which request, and it records every request.

The test's side is FaultProxy: rules are dicts, counted for each rule by itself.

    proxy.rule("swallow", method="PUT", path="@log/", every=10)   the server applied it; the client's connection ends without an answer
    proxy.rule("answer", status=503, code="SlowDown", times=5)     answered here; the server never sees it
    proxy.rule("answer_after", status=500)                         the server applied it; the client is told this instead
    proxy.rule("delay", ms=200)                                    given to the server later
    proxy.rule("cut_answer") / ("cut_request")                     half of the body of the answer, or of the request, then the connection ends
    proxy.rule("keep", method="PUT", times=1)                      answered as it was, and kept: proxy.deliver(id) gives it to the server once more
    proxy.rule("hold", method="PUT", times=1)                      kept from the server until proxy.deliver(id); the client waits meanwhile
    proxy.rule("lose", method="PUT", times=1)                      as hold, but the client's connection ends at once
    proxy.rule("hold_answer", ...)                                 the server applied it; the client is answered at proxy.release(id), with drop=True never

    proxy.away(name), proxy.back(name)                             nobody answers at the port of that client; then somebody does again

A rule acts on each request that it matches: on each `every`-th of them, at most `times` times. The first rule that acts decides. `client` is the name given to
proxy.listen(): one port for each client that the test wants to tell apart; `pid` tells apart processes that come by one port. Rules are counted when the head of a
request has come.
"""

import asyncio
import contextlib
import glob
import json
import os
import re
import socket
import ssl
import sys
import time
import urllib.parse

LINE = 64 << 10
BODY_FREE = (204, 304)


class Rule:
    def __init__(self, number, do, method=None, path="", client=None, pid=None, every=1, times=None, after=0, **more):
        self.number, self.do, self.method, self.path, self.client, self.pid = number, do, method, re.compile(path), client, pid
        self.every, self.times, self.after, self.more = every, times, after, more
        self.matched = self.acted = 0

    def acts(self, method, target, client, port):
        if (self.method and method != self.method) or not self.path.search(target) or (self.client and client != self.client):
            return False
        if self.pid is not None and not has_connection(self.pid, port):
            return False
        if self.times is not None and self.acted >= self.times:
            return False
        self.matched += 1
        if self.matched <= self.after or (self.matched - self.after) % self.every:
            return False
        self.acted += 1
        return True


def sockets_of(port):
    """What /proc calls the sockets that are bound to this port of ours."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        return {f"socket:[{row[9]}]" for row in map(str.split, table) if row[1].endswith(f":{port:04X}")}


def has_connection(pid, port):
    links = glob.glob(f"/proc/{pid}/fd/*")
    names = sockets_of(port)
    for link in links:
        with contextlib.suppress(OSError):
            if os.readlink(link) in names:
                return True
    return False


class Message:
    """A request or an answer: first line, headers as they came, body."""

    def __init__(self, first, headers, body):
        self.first, self.headers, self.body = first, headers, body

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name), None)

    def bytes(self, body=None):
        """With its length told by Content-Length, whatever it was told by."""
        kept = [(k, v) for k, v in self.headers if k.lower() not in ("transfer-encoding", "connection", "keep-alive", "expect")]
        if self.header("content-length") is None and self.header("transfer-encoding") is not None:
            kept.append(("Content-Length", str(len(self.body))))
        return (self.first + "\r\n" + "".join(f"{k}: {v}\r\n" for k, v in kept) + "\r\n").encode("latin-1") + (self.body if body is None else body)


async def read_head(reader):
    first = (await reader.readline()).decode("latin-1").rstrip("\r\n")
    if not first:
        return None
    headers = []
    while line := (await reader.readline()).decode("latin-1").rstrip("\r\n"):
        name, _, value = line.partition(":")
        headers.append((name, value.strip()))
    return Message(first, headers, b"")


async def read_body(reader, message, to_the_end=False):
    if (message.header("transfer-encoding") or "").lower() == "chunked":
        while size := int((await reader.readline()).split(b";")[0], 16):
            message.body += await reader.readexactly(size)
            await reader.readline()
        while (await reader.readline()).strip():
            pass
    elif message.header("content-length") is not None:
        message.body = await reader.readexactly(int(message.header("content-length")))
    elif to_the_end:
        message.body = await reader.read()
        message.headers.append(("Content-Length", str(len(message.body))))
    return message


class Proxy:
    def __init__(self, host, port):
        self.server = (host, port)
        self.rules, self.log, self.kept, self.waiting, self.listeners, self.open = {}, [], {}, {}, {}, {}
        self.changed = asyncio.Condition()

    async def give(self, request, cut=False):
        """One exchange with the server. `cut`: only half of the request reaches it."""
        reader, writer = await asyncio.open_connection(*self.server, limit=LINE)
        try:
            data = request.bytes()
            writer.write(data[:len(data) - (len(request.body) + 1) // 2] if cut else data)
            await writer.drain()
            if cut:
                return None
            method = request.first.split(" ")[0]
            while True:
                answer = await read_head(reader)
                if answer is None:
                    raise ConnectionError("the server ended the connection")
                status = int(answer.first.split(" ")[1])
                if status >= 200:
                    break
            if method != "HEAD" and status not in BODY_FREE:
                await read_body(reader, answer, to_the_end=True)
            return answer
        finally:
            writer.close()

    async def note(self, entry, **what):
        entry.update(what)
        async with self.changed:
            self.changed.notify_all()

    async def client(self, name, reader, writer):
        self.open.setdefault(name, set()).add(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, ValueError):
            while (request := await read_head(reader)) is not None:
                if (request.header("expect") or "").lower() == "100-continue":
                    writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await read_body(reader, request)
                if not await self.exchange(name, request, writer):
                    break
        self.open[name].discard(writer)
        with contextlib.suppress(Exception):
            writer.close()

    async def exchange(self, name, request, writer):
        """One request of a client. False: its connection is to end."""
        method, target, _ = request.first.split(" ", 2)
        target = urllib.parse.unquote(target)
        entry = {"id": len(self.log), "client": name, "method": method, "target": target, "size": len(request.body), "server": None, "status": None, "rule": None,
                 "if_none_match": request.header("if-none-match"), "port": writer.get_extra_info("peername")[1], "state": "came", "at": time.monotonic()}
        self.log.append(entry)
        rule = next((rule for rule in self.rules.values() if rule.acts(method, target, name, entry["port"])), None)
        do = rule.do if rule else None
        await self.note(entry, rule=do)
        if do == "delay":
            await asyncio.sleep(rule.more["ms"] / 1000)
        if do in ("hold", "lose", "keep"):
            self.kept[entry["id"]] = request
        if do == "lose":
            await self.note(entry, state="held")
            return False
        if do == "answer":
            return await self.say(entry, writer, made_up(rule.more))
        if do == "cut_request":
            await self.give(request, cut=True)
            await self.note(entry, state="done")
            return False
        if do == "hold":
            gate = self.waiting[entry["id"]] = asyncio.get_running_loop().create_future()
            await self.note(entry, state="held")
            await gate
        try:
            answer = await self.give(request)
        except OSError:
            await self.note(entry, state="done")
            return False
        await self.note(entry, server=int(answer.first.split(" ")[1]))
        if do == "swallow":
            await self.note(entry, state="done")
            return False
        if do == "cut_answer":
            writer.write(answer.bytes(answer.body[:len(answer.body) // 2]))
            await writer.drain()
            await self.note(entry, state="done")
            return False
        if do == "hold_answer":
            gate = self.waiting[entry["id"]] = asyncio.get_running_loop().create_future()
            await self.note(entry, state="held")
            await gate
            if rule.more.get("drop"):
                await self.note(entry, state="done")
                return False
        return await self.say(entry, writer, made_up(rule.more) if do == "answer_after" else answer)

    async def say(self, entry, writer, answer):
        await self.note(entry, status=int(answer.first.split(" ")[1]), state="done")  # recorded before the client can act on it
        writer.write(answer.bytes())
        await writer.drain()
        return True

    # --- what the test asks -------------------------------------------------------------------------------------------
    async def ask_listen(self, name="", tls=None):
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
        server = await asyncio.start_server(lambda r, w: self.client(name, r, w), "127.0.0.1", 0, limit=LINE, ssl=context, backlog=1024)
        self.listeners[name] = server
        return {"port": server.sockets[0].getsockname()[1]}

    async def ask_away(self, name):
        """Nobody answers at the port of this client any more: connections are refused, and those that it has end. The port stays taken."""
        server = self.listeners[name]
        port = server.sockets[0].getsockname()[1]
        server.close()
        for writer in self.open.get(name, set()):
            writer.transport.abort()
        taken = self.listeners[name] = socket.socket()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        return {}

    async def ask_back(self, name):
        self.listeners[name] = await asyncio.start_server(lambda r, w: self.client(name, r, w), sock=self.listeners[name], limit=LINE, backlog=1024)
        return {}

    async def ask_rule(self, number, **rule):
        self.rules[number] = Rule(number, **rule)
        return {}

    async def ask_process(self, id):
        """Whose request that was. One process: its connection is open."""
        port = self.log[id]["port"]
        pids = [int(path.split("/")[2]) for path in glob.glob("/proc/[0-9]*") if int(path.split("/")[2]) != os.getpid()]
        return {"pid": next(pid for pid in pids if has_connection(pid, port))}

    async def ask_drop(self, number):
        rule = self.rules.pop(number)
        return {"matched": rule.matched, "acted": rule.acted}

    async def ask_counts(self, number):
        return {"matched": self.rules[number].matched, "acted": self.rules[number].acted}

    async def ask_log(self, start=0):
        return {"log": self.log[start:]}

    async def ask_wait(self, **want):
        """The first request of which all of this is true; from `start` on."""
        start, path = want.pop("start", 0), re.compile(want.pop("path", ""))
        async with self.changed:
            while True:
                for entry in self.log[start:]:
                    if path.search(entry["target"]) and all(entry.get(key) == value for key, value in want.items()):
                        return {"entry": entry}
                await self.changed.wait()

    async def ask_deliver(self, id):
        if id in self.waiting:
            return await self.ask_release(id)
        answer = await self.give(self.kept[id])
        return {"status": int(answer.first.split(" ")[1]), "body": answer.body.decode(errors="replace")}

    async def ask_release(self, id):
        self.waiting.pop(id).set_result(None)
        return {}


def made_up(more):
    status, code = more["status"], more.get("code", "SlowDown")
    body = more.get("body") or f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{more.get("message", "said by the fault proxy")}</Message></Error>'
    headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body.encode()))), ("x-ms-error-code", code), *more.get("headers", [])]
    return Message(f"HTTP/1.1 {status} {code}", headers, body.encode())


async def main(host, port):
    proxy = Proxy(host, port)
    loop = asyncio.get_running_loop()
    asks = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asks), sys.stdin)

    async def answer(number, ask):
        try:
            said = await getattr(proxy, "ask_" + ask.pop("ask"))(**ask)
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps({"n": number, **said}) + "\n")
        sys.stdout.flush()
    tasks = set()
    while text := await asks.readline():
        ask = json.loads(text)
        task = loop.create_task(answer(ask.pop("n"), ask))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
