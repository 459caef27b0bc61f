"""Answers questions about a container with azure-storage-blob: JSON in, JSON out, a line each."""

import json
import sys

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobServiceClient, ContentSettings

service = BlobServiceClient.from_connection_string(sys.argv[1], api_version="2025-01-05")


def blob(request):
    return service.get_blob_client(request["bucket"], request["key"])


def create(request):
    service.create_container(request["bucket"])


def put(request):
    with open(request["file"], "rb") as file:
        blob(request).upload_blob(file, overwrite=True, metadata=request.get("metadata"))


def put_archived(request):
    put(request)
    blob(request).set_standard_blob_tier("Archive")


def restore(request):
    blob(request).set_standard_blob_tier("Hot")


def get(request):
    stream = blob(request).download_blob()
    with open(request["file"], "wb") as file:
        stream.readinto(file)


def head(request):
    found = blob(request).get_blob_properties()
    return {"size": found.size, "etag": found.etag, "metadata": found.metadata}


def note_md5(request):
    md5 = bytearray(bytes.fromhex(request["md5"]))
    blob(request).set_http_headers(ContentSettings(content_md5=md5))


def delete(request):
    blob(request).delete_blob()


def keys(request):
    return sorted(service.get_container_client(request["bucket"]).list_blob_names())


calls = {
    "create": create,
    "put": put,
    "put_archived": put_archived,
    "restore": restore,
    "get": get,
    "head": head,
    "note_md5": note_md5,
    "delete": delete,
    "keys": keys,
}

for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"answer": calls[request["do"]](request)}
    except ResourceNotFoundError:
        answer = {"error": "NoSuchKey"}
    except HttpResponseError as error:
        answer = {"error": error.error_code or str(error.status_code)}
    except Exception as error:
        answer = {"error": repr(error)}
    print(json.dumps(answer), flush=True)
