"""A small client of S3 and of Azure Blob for tests: signs for itself, reads and writes whole objects. Nothing of the product: a second opinion.

Each call makes one request and returns (status, headers, body); nothing is retried.
"""

import base64
import datetime
import hashlib
import hmac
import http.client
import urllib.parse
import xml.etree.ElementTree as ET

SECONDS = 60
PAGE = 1000


def now():
    return datetime.datetime.now(datetime.timezone.utc)


class Client:
    def __init__(self, host, port, bucket):
        self.host, self.port, self.bucket = host, port, bucket
        self.connection = None

    def send(self, method, target, headers, body):
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)
        try:
            self.connection.request(method, target, body=body or None, headers={**headers, "Content-Length": str(len(body))} if method in ("PUT", "POST") else headers)
            answer = self.connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def get(self, key):
        return self.request("GET", key)

    def delete(self, key):
        return self.request("DELETE", key)

    def keys(self, prefix=""):
        """Every key under the prefix, in order."""
        found, after = [], None
        while True:
            keys, after = self.page(prefix, after)
            found += keys
            if not after:
                return sorted(found)


class S3(Client):
    def __init__(self, host, port, access_key, secret_key, region, bucket):
        super().__init__(host, port, bucket)
        self.access_key, self.secret_key, self.region = access_key, secret_key, region

    def request(self, method, key="", query=(), headers=(), body=b"", at=None):
        at = at or now()
        stamp, day = at.strftime("%Y%m%dT%H%M%SZ"), at.strftime("%Y%m%d")
        path = urllib.parse.quote(f"/{self.bucket}/{key}" if key else f"/{self.bucket}", safe="/-_.~")
        text = "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(str(v), safe='-_.~')}" for k, v in sorted(dict(query).items()))
        digest = hashlib.sha256(body).hexdigest()
        signed = {"host": f"{self.host}:{self.port}", "x-amz-content-sha256": digest, "x-amz-date": stamp}
        names = ";".join(sorted(signed))
        canonical = "\n".join([method, path, text, "".join(f"{k}:{signed[k]}\n" for k in sorted(signed)), names, digest])
        scope = f"{day}/{self.region}/s3/aws4_request"
        secret = f"AWS4{self.secret_key}".encode()
        for part in (day, self.region, "s3", "aws4_request"):
            secret = hmac.digest(secret, part.encode(), "sha256")
        signature = hmac.digest(secret, "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()]).encode(), "sha256").hex()
        sent = {**dict(headers), **{k: v for k, v in signed.items() if k != "host"},
                "Authorization": f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"}
        return self.send(method, path + ("?" + text if text else ""), sent, body)

    def make_bucket(self):
        return self.request("PUT")

    def put(self, key, body, if_absent=False):
        return self.request("PUT", key, headers={"If-None-Match": "*"} if if_absent else {}, body=body)

    def page(self, prefix, after):
        query = {"list-type": "2", "prefix": prefix, "max-keys": PAGE, **({"continuation-token": after} if after else {})}
        status, _, body = self.request("GET", query=query)
        if status != 200:
            raise OSError(f"LIST {prefix} answered {status}: {body[:300]}")
        tree = ET.fromstring(body)
        space = tree.tag.partition("}")[0] + "}" if tree.tag.startswith("{") else ""
        return [key.text for key in tree.iter(f"{space}Key")], tree.findtext(f"{space}NextContinuationToken")


class Azure(Client):
    VERSION = "2021-08-06"

    def __init__(self, host, port, account, key, bucket):
        super().__init__(host, port, bucket)
        self.account, self.key = account, base64.b64decode(key)

    def request(self, method, key="", query=(), headers=(), body=b"", at=None):
        path = urllib.parse.quote(f"/{self.account}/{self.bucket}" + (f"/{key}" if key else ""), safe="/-_.~")
        query, given = dict(query), {k.lower(): v for k, v in dict(headers).items()}
        sent = {**given, "x-ms-date": (at or now()).strftime("%a, %d %b %Y %H:%M:%S GMT"), "x-ms-version": self.VERSION}
        if method == "PUT" and key:
            sent["x-ms-blob-type"] = "BlockBlob"
        length = str(len(body)) if body else ""
        plain = [method, "", "", length, "", "", "", "", given.get("if-match", ""), given.get("if-none-match", ""), "", ""]
        special = [f"{k}:{sent[k]}" for k in sorted(sent) if k.startswith("x-ms-")]
        # The account stands twice: once as the account, once in the path of this style of address.
        resource = [f"/{self.account}{path}"] + [f"{k.lower()}:{v}" for k, v in sorted(query.items())]
        signature = base64.b64encode(hmac.digest(self.key, "\n".join(plain + special + resource).encode(), "sha256")).decode()
        sent["Authorization"] = f"SharedKey {self.account}:{signature}"
        text = urllib.parse.urlencode(sorted(query.items()), quote_via=urllib.parse.quote)
        return self.send(method, path + ("?" + text if text else ""), sent, body)

    def make_bucket(self):
        return self.request("PUT", query={"restype": "container"})

    def put(self, key, body, if_absent=False):
        return self.request("PUT", key, headers={"If-None-Match": "*"} if if_absent else {}, body=body)

    def page(self, prefix, after):
        query = {"restype": "container", "comp": "list", "prefix": prefix, "maxresults": PAGE, **({"marker": after} if after else {})}
        status, _, body = self.request("GET", query=query)
        if status != 200:
            raise OSError(f"LIST {prefix} answered {status}: {body[:300]}")
        tree = ET.fromstring(body.decode("utf-8-sig"))
        return [name.text for name in tree.iter("Name")], tree.findtext("NextMarker")
