"""Speaks TLS with whoever connects, and passes on what is said to a server that does not."""

import asyncio
import ssl
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def main(port, certificate, key, server):
    host, server_port = server.rsplit(":", 1)

    async def pass_on(reader, writer):
        try:
            there = await asyncio.open_connection(host, int(server_port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listening = await asyncio.start_server(pass_on, "127.0.0.1", int(port), ssl=context)
    await listening.serve_forever()


asyncio.run(main(*sys.argv[1:]))
