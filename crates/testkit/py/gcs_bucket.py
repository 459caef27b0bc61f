"""Answers questions about a bucket with google-cloud-storage: JSON in, JSON out, a line each."""

import json
import sys

from google.api_core.exceptions import GoogleAPICallError, NotFound
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

client = storage.Client(
    project="test",
    credentials=AnonymousCredentials(),
    client_options={"api_endpoint": sys.argv[1]},
)


def blob(request):
    return client.bucket(request["bucket"]).blob(request["key"])


def create(request):
    client.create_bucket(request["bucket"])


def put(request):
    target = blob(request)
    target.metadata = request.get("metadata") or {}
    target.upload_from_filename(request["file"])


def get(request):
    blob(request).download_to_filename(request["file"])


def head(request):
    found = blob(request)
    found.reload()
    return {
        "size": found.size,
        "etag": str(found.generation),
        "metadata": found.metadata or {},
    }


def delete(request):
    blob(request).delete()


def keys(request):
    return sorted(found.name for found in client.list_blobs(request["bucket"]))


calls = {"create": create, "put": put, "get": get, "head": head, "delete": delete, "keys": keys}

for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"answer": calls[request["do"]](request)}
    except NotFound:
        answer = {"error": "NoSuchKey"}
    except GoogleAPICallError as error:
        answer = {"error": str(error.code)}
    except Exception as error:
        answer = {"error": repr(error)}
    print(json.dumps(answer), flush=True)
