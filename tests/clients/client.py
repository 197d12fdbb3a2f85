"""The Python SDK. Reads one JSON command per line, answers one JSON line each."""

import asyncio
import json
import sys

import httpx2
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client


async def main(url, key):
    headers = {"Authorization": f"Bearer {key}"}
    timeout = httpx2.Timeout(30.0, read=300.0)
    async with httpx2.AsyncClient(headers=headers, timeout=timeout) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            loop = asyncio.get_running_loop()
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                command = json.loads(line)
                try:
                    answer = await done(client, command)
                except Exception as error:  # whatever it is, the journey is told
                    answer = {"failed": repr(error)}
                print(json.dumps(answer), flush=True)


async def done(client, command):
    if command["do"] == "list":
        return {"tools": [tool.name for tool in (await client.list_tools()).tools]}
    heard = 0

    async def progress(*_):
        nonlocal heard
        heard += 1

    options = {"progress_callback": progress} if command.get("progress") else {}
    result = await client.call_tool(command["tool"], command["arguments"], **options)
    return {"result": result.model_dump(mode="json", by_alias=True, exclude_none=True), "heard": heard}


asyncio.run(main(*sys.argv[1:]))
