"""What a user is told when a bucket cannot be used: what happened, to what, and what to do; the exit code; and never a secret.

Real answers of radosgw, azurite and s3rver; what these never say (expired keys, another region, a throttling that lasts) is said by the proxy in the store's
own words. A wrong clock is faketime's, a certificate of nobody's is made here. Each case runs one command that reads and one that writes.
"""

import base64
import email.utils
import json
import os
import subprocess
import sys
import time

from bucket_servers import AZURE_KEY, OTHER_ACCESS_KEY, OTHER_SECRET_KEY, SECRET_KEY, Azurite, Radosgw, S3rver, free_port
from bucket_support import FaultProxy
from harness import check, main

EXIT = {"usage": 2, "refused": 3, "unavailable": 5, "not found": 6}
WRONG_SECRET = "onepen-test-a-wrong-secret-00000000000001"
WRONG_AZURE_KEY = base64.b64encode(b"not the key of this account, not at all, and sixty-four bytes...").decode()
SECRETS = (SECRET_KEY, OTHER_SECRET_KEY, WRONG_SECRET, AZURE_KEY, WRONG_AZURE_KEY)
FAKETIME = next((f"/usr/lib/{machine}/faketime/libfaketime.so.1" for machine in (f"{os.uname().machine}-linux-gnu",)), None)
MOST_REQUESTS = 200   # of a case: whoever is refused does not go on asking


class Cases:
    def __init__(self, root):
        self.root = root
        self.told = {}

    def commands(self, home):
        """One that reads, one that writes."""
        cache = self.root.cache()
        return [("status", "app", "--home", home, "--cache-root", cache), ("sql", "app", "CREATE TABLE t(x)", "--write", "--home", home, "--cache-root", cache)]

    def all_of(self, home):
        """Those, and what else asks a bucket first of all."""
        return [*self.commands(home), ("history", "app", "--home", home), ("list", "--home", home), ("probe", home)]

    def case(self, what, home, env, code, *words, commands=None):
        """The commands fail so; each word (or one of a tuple) must be in the sentence."""
        for command in commands or self.commands(home):
            status, out, err = self.root.onepen(*command, env=env)
            shown = f"{what}: onepen {command[0]}"
            check(status == EXIT[code], f"{shown} must end with {EXIT[code]}, not {status}", out, err)
            self.whole(shown, out + err, words)
            status, out, err = self.root.onepen(*command, "--json", env=env)
            try:
                error = json.loads(out)["error"]
            except (ValueError, KeyError, TypeError):
                check(False, f"{shown} --json must print an error", out, err)
            check(status == EXIT[code] == error["exit_code"], f"{shown} --json must end with {EXIT[code]}", status, error)
            self.whole(shown + " --json", error["message"], words)
        self.told[what] = error["message"]

    def whole(self, shown, text, words):
        check(len(text.strip()) > 40, f"{shown}: a whole sentence is wanted", text)
        for word in words:
            alternatives = word if isinstance(word, tuple) else (word,)
            check(any(one.lower() in text.lower() for one in alternatives), f"{shown}: it must say {' or '.join(alternatives)}", text)
        for secret in SECRETS:
            check(secret not in text and secret[8:30] not in text, f"{shown}: a secret is shown", text)


def of_radosgw(root, cases, server):
    good = server.environment()
    home = server.url("errors")
    missing = server.url("errors", bucket="nobody-made-this")
    cases.case("no such bucket", missing, good, "not found", "nobody-made-this", "no such bucket", f"127.0.0.1:{server.port}", commands=cases.all_of(missing))
    cases.case("an unknown access key", home, {**good, "AWS_ACCESS_KEY_ID": "ONEPENTESTKEY000NOT"}, "refused", "ONEPENTESTKEY000NOT", "AWS_ACCESS_KEY_ID", "access key")
    cases.case("a wrong secret", home, {**good, "AWS_SECRET_ACCESS_KEY": WRONG_SECRET}, "refused", "AWS_SECRET_ACCESS_KEY", "secret")
    cases.case("id and secret swapped", home, {**good, "AWS_ACCESS_KEY_ID": SECRET_KEY, "AWS_SECRET_ACCESS_KEY": good["AWS_ACCESS_KEY_ID"]}, "refused", "swapped")
    cases.case("no right", home, {**good, "AWS_ACCESS_KEY_ID": OTHER_ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": OTHER_SECRET_KEY}, "refused", "onepen", ("right", "permission"), OTHER_ACCESS_KEY)
    nothing = {name: "" for name in good}
    cases.case("no credentials", home, {**nothing, "AWS_EC2_METADATA_DISABLED": "true"}, "refused", "AWS_ACCESS_KEY_ID", ("credentials", "keys"))
    cases.case("a wrong clock", home, {**good, "LD_PRELOAD": FAKETIME, "FAKETIME": "+3h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}, "unavailable", "clock", ("ahead", "differ"))
    # Nothing of it was an accident of the server: with the right ones it works.
    code, out, err = root.onepen(*cases.commands(home)[1], env=good)
    check(code == 0, "with the right credentials it works", out, err)


def of_the_proxy(root, cases, server):
    """What only other stores say."""
    good = server.environment()
    said = [("expired credentials", {"status": 400, "code": "ExpiredToken"}, "refused", ("expired",)),
            ("another region", {"status": 400, "code": "AuthorizationHeaderMalformed", "headers": [["x-amz-bucket-region", "eu-south-9"]],
                                "body": "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region 'us-east-1' is wrong; expecting 'eu-south-9'</Message>"
                                        "<Region>eu-south-9</Region></Error>"}, "usage", ("eu-south-9", "us-east-1", "region")),
            ("throttled all the time", {"status": 503, "code": "SlowDown"}, "unavailable", ("throttles", "SlowDown", "503")),
            ("a proxy's own page", {"status": 403, "code": "Forbidden", "body": "<html>not for you</html>"}, "unavailable", ("proxy", "403"))]
    for what, rule, code, words in said:
        with FaultProxy(server) as proxy:
            # The region is told by the URL: it is kept, so that nothing goes to the store of another region.
            home = server.url("errors", proxy.listen(what)) + "&region=us-east-1"
            proxy.rule("answer", **rule)
            # Patient where it is throttled: one command shows it.
            cases.case(what, home, good, code, "onepen", "127.0.0.1", *words, commands={"throttled all the time": [("status", "app", "--home", home)], "another region": cases.all_of(home)}.get(what))
            check(len(proxy.log()) <= MOST_REQUESTS, f"{what}: it went on asking", len(proxy.log()))


def certificate(root):
    key, cert = root.path / "key.pem", root.path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return str(cert), str(key)


def of_the_wire(root, cases, server):
    good = server.environment()
    cases.case("nobody listens", server.url("errors", free_port()), good, "unavailable", "127.0.0.1", ("nobody answers", "refused", "connect"), "endpoint")
    with FaultProxy(server) as proxy:
        tls = certificate(root)
        port = proxy.listen("tls", tls=tls)
        home = server.url("errors", port, scheme="https")
        cases.case("a certificate of nobody's", home, good, "unavailable", "TLS", ("certificate", "trusted"))
        cases.case("TLS is wanted", server.url("errors", port), good, "unavailable", "https://", ("without an answer", "no HTTP"))
        cases.case("TLS is not spoken", server.url("errors", scheme="https"), good, "unavailable", "speaks TLS")
        check(not proxy.log(), "a request was sent to a server whose certificate was not trusted", proxy.log())
        os.chmod(tls[0], 0o644)
        code, out, err = root.onepen("status", "app", "--home", home, env={**good, "AWS_CA_BUNDLE": tls[0]})
        check(code == 0, "trusted by AWS_CA_BUNDLE it works: the case is about trust", code, out, err)


def of_a_store_without_conditions(root, cases, server):
    """s3rver overwrites what is there: refused before the first claim, with what was seen."""
    home, good = server.url("errors"), server.environment()
    code, out, err = root.onepen("probe", home, env=good)
    check(code == EXIT["usage"], f"onepen probe of a store that ignores conditions must end with {EXIT['usage']}, not {code}", out, err)
    cases.whole("onepen probe", out + err, (("twice", "second"), "If-None-Match", f"127.0.0.1:{server.port}"))
    code, out, err = root.onepen("sql", "app", "CREATE TABLE t(x)", "--write", "--home", home, "--cache-root", root.cache(), env=good)
    check(code == EXIT["usage"], "writing there is refused", code, out, err)
    cases.whole("onepen sql --write", out + err, (("twice", "second"), "If-None-Match"))
    left = [key for key in server.client().keys("") if "@log" in key]
    check(not left, "a claim was placed in a store that cannot fence", left)
    cases.told["a store without conditions"] = (out + err).strip()


def probe_says_yes(root, server):
    code, out, err = root.onepen("probe", server.url("probed"), env=server.environment())
    check(code == 0, f"onepen probe of {server.name}", out, err)
    left = server.client().keys("probed")
    check(not left, "the probe left something behind", left)
    return out.strip()


def of_azurite(root, cases, server):
    good = server.environment()
    home = server.url("errors")
    missing = server.url("errors", bucket="nobody-made-this")
    cases.case("azure: no such container", missing, good, "not found", "nobody-made-this", "no such container", commands=cases.all_of(missing))
    # azurite says of a wrong key what Azure says of a missing right.
    cases.case("azure: a wrong key", home, {**good, "AZURE_STORAGE_KEY": WRONG_AZURE_KEY}, "refused", "devstoreaccount1", ("key", "do not allow"))
    cases.case("azure: account and key swapped", home, {"AZURE_STORAGE_ACCOUNT": good["AZURE_STORAGE_KEY"], "AZURE_STORAGE_KEY": good["AZURE_STORAGE_ACCOUNT"]}, "refused",
               "AZURE_STORAGE_ACCOUNT", "Is it the key")
    swapped = "az://onepen/errors"   # here the account would be a part of the host's name
    cases.case("azure: account and key swapped, no endpoint", swapped, {"AZURE_STORAGE_ACCOUNT": good["AZURE_STORAGE_KEY"], "AZURE_STORAGE_KEY": "x"}, "refused", "Is it the key")
    cases.case("azure: no credentials", home, {**good, "AZURE_STORAGE_KEY": "", "AZURE_POD_IDENTITY_AUTHORITY_HOST": f"http://127.0.0.1:{free_port()}"}, "refused", "AZURE_STORAGE_KEY",
               "identity of this machine")
    with FaultProxy(server) as proxy:
        behind = server.url("errors", proxy.listen("azure"))
        for what, answer, code, words in (
                ("expired", {"status": 403, "code": "AuthenticationFailed"}, "refused", ("devstoreaccount1", "expired", "AZURE_STORAGE_SAS_TOKEN")),
                ("a wrong clock", {"status": 403, "code": "AuthenticationFailed", "headers": [["Date", email.utils.formatdate(time.time() - 3 * 3600, usegmt=True)]]}, "unavailable", ("ahead of", "clock")),
                ("no right", {"status": 403, "code": "AuthorizationPermissionMismatch"}, "refused", ("devstoreaccount1", "(l)")),
                ("a proxy's own page", {"status": 403, "code": "", "body": "<html>not for you</html>"}, "unavailable", ("proxy", "403"))):
            rule = proxy.rule("answer", **answer)
            cases.case(f"azure: {what}", behind, good, code, "'onepen'", "127.0.0.1", *words)
            proxy.drop(rule)
    cases.case("azure: nobody listens", server.url("errors", free_port()), good, "unavailable", "127.0.0.1", "endpoint")
    code, out, err = root.onepen(*cases.commands(home)[1], env=good)
    check(code == 0, "with the right key it works", out, err)


def test(root):
    cases = Cases(root)
    probed = {}
    with Radosgw(root) as server:
        probed["radosgw"] = probe_says_yes(root, server)
        of_radosgw(root, cases, server)
        of_the_proxy(root, cases, server)
        of_the_wire(root, cases, server)
    with S3rver(root) as server:
        of_a_store_without_conditions(root, cases, server)
    with Azurite(root) as server:
        probed["azurite"] = probe_says_yes(root, server)
        of_azurite(root, cases, server)
    for what, sentence in cases.told.items():
        print(f"bucket_errors: {what}: {sentence}")
    for name, said in probed.items():
        print(f"bucket_errors: onepen probe of {name}: {said.splitlines()[0] if said else ''}")
    print(f"bucket_errors: {len(cases.told)} cases, each told with its exit code and without a secret")


if __name__ == "__main__":
    sys.exit(main(test, "bucket_errors"))
