"""Answers questions about a bucket with boto3: one JSON request a line, one JSON answer a line."""

import concurrent.futures
import hashlib
import json
import sys

import boto3
import botocore.client
import botocore.exceptions

endpoint, user, secret = sys.argv[1:]
s3 = boto3.client(
    "s3",
    endpoint_url=endpoint,
    aws_access_key_id=user,
    aws_secret_access_key=secret,
    region_name="us-east-1",
    config=botocore.client.Config(
        s3={"addressing_style": "path"},
        connect_timeout=5,
        read_timeout=120,
        retries={"max_attempts": 2},
        max_pool_connections=16,
    ),
)


# The sums of objects that are still what they were when they were read.
known_sums = {}


def entries(bucket, prefix=""):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [entry for page in pages for entry in page.get("Contents", [])]


def sha256(bucket, entry):
    """None for what was removed since it was listed."""
    version = (bucket, entry["Key"], entry["ETag"], entry["LastModified"], entry["Size"])
    if version not in known_sums:
        digest = hashlib.sha256()
        try:
            body = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"]
        except s3.exceptions.NoSuchKey:
            return None
        for chunk in body.iter_chunks(1 << 20):
            digest.update(chunk)
        known_sums[version] = digest.hexdigest()
    return known_sums[version]


def many(function, items):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(function, items))


def create(request):
    s3.create_bucket(Bucket=request["bucket"])


def put(request):
    extra = {"Metadata": request.get("metadata", {})}
    with open(request["file"], "rb") as file:
        s3.upload_fileobj(file, request["bucket"], request["key"], ExtraArgs=extra)


def put_archived(request):
    with open(request["file"], "rb") as file:
        s3.put_object(
            Bucket=request["bucket"], Key=request["key"], Body=file.read(), StorageClass="GLACIER"
        )


def restore(request):
    s3.restore_object(
        Bucket=request["bucket"], Key=request["key"], RestoreRequest={"Days": 1}
    )


def put_many(request):
    def one(number):
        key = f"{request['key']}{number:05}"
        s3.put_object(Bucket=request["bucket"], Key=key, Body=request["text"].encode())

    many(one, range(request["count"]))


def get(request):
    # One request: what several would bring of an object that is replaced meanwhile fits nowhere.
    body = s3.get_object(Bucket=request["bucket"], Key=request["key"])["Body"]
    with open(request["file"], "wb") as file:
        for chunk in body.iter_chunks(1 << 20):
            file.write(chunk)


def head(request):
    answer = s3.head_object(Bucket=request["bucket"], Key=request["key"])
    return {
        "size": answer["ContentLength"],
        "etag": answer["ETag"],
        "metadata": answer["Metadata"],
    }


def delete(request):
    s3.delete_object(Bucket=request["bucket"], Key=request["key"])


def keys(request):
    return sorted(entry["Key"] for entry in entries(request["bucket"]))


def sums(request):
    bucket = request["bucket"]
    found = [entry for entry in entries(bucket, request["prefix"]) if not entry["Key"].endswith("/")]
    sums = many(lambda entry: sha256(bucket, entry), found)
    return {entry["Key"]: sum for entry, sum in zip(found, sums) if sum is not None}


def is_there(bucket, upload):
    """MinIO goes on to list an upload that was removed if a part of it came in at that moment."""
    try:
        s3.list_parts(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    except s3.exceptions.NoSuchUpload:
        return False
    return True


def uploads(request):
    bucket = request["bucket"]
    found = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return [upload["Key"] for upload in found if is_there(bucket, upload)]


calls = {
    "create": create,
    "put": put,
    "put_many": put_many,
    "put_archived": put_archived,
    "restore": restore,
    "get": get,
    "head": head,
    "delete": delete,
    "keys": keys,
    "sha256": sums,
    "uploads": uploads,
}

for line in sys.stdin:
    request = json.loads(line)
    try:
        answer = {"answer": calls[request["do"]](request)}
    except botocore.exceptions.ClientError as error:
        answer = {"error": error.response["Error"]["Code"]}
    except Exception as error:
        answer = {"error": repr(error)}
    print(json.dumps(answer), flush=True)
