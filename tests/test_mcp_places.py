"""What a recording says of where an MCP server is, and which secrets are known from there on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stepfork.adapters._credentials import in_command, in_headers, in_url
from stepfork.adapters._mcp_places import hidden_parts, place_of

MADE = "9f8a7c2Kd0e1b4Qz3Xw5"

COMMANDS = {
    "/usr/bin/python3.11 /home/me/shop.py stdio 8080": "python3.11 shop.py stdio",
    "python -u shop.py --api-key swordfish": "python -u shop.py --api-key",
    "python -m shop --token=swordfish -p swordfish": "python -m shop --token -p",
    "python -c print('swordfish')": "python -c",
    f"npx -y @shop/server@1.2.0 {MADE}": "npx -y @shop/server@1.2.0",
    "npx -y @shop/db postgresql://bob:swordfish@db/prod": "npx -y @shop/db",
    "npx mcp-remote https://x.example.com/swordfish/sse --header X-Key:swordfish": "npx mcp-remote --header",
    "docker run -i --rm -e K=swordfish -u 0 shop/server stdio": "docker run -i --rm -e -u shop/server stdio",
    "uv --directory /home/me/x run server.py": "uv --directory run server.py",
    "uvx --from git+https://swordfish@example.com/x shop --key swordfish": "uvx --from shop --key",
    "env SHOP_KEY=swordfish python server.py": "env python server.py",
    "node build/index.js swordfish": "node build/index.js",
    "node --unheard-of swordfish server.js": "node --unheard-of",
    "my-server swordfish -pswordfish": "my-server -p",
    "sh -c SHOP_KEY=swordfish": "sh -c",
    f"python {MADE}": "python *",
    r"C:\Python\python.exe C:\srv\server.py": "python.exe server.py",
}
URLS = {
    "https://mcp.example.com/sse": "mcp.example.com/sse",
    "http://127.0.0.1:8123/mcp": "/mcp",
    "https://host.example.com/mcp/SECRETTOKEN/sse": "host.example.com/mcp/*/sse",
    f"https://bob:swordfish@api.example.com/v1/{MADE}/mcp?key=swordfish": "api.example.com/v1/*/mcp",
    f"https://{MADE.lower()}.example.com/jira-server/mcp": "*.example.com/jira-server/mcp",
    "http://10.0.0.3/sse": "10.0.0.3/sse",
    "https://intranet": "intranet/",
    "http://[no-url": "*",
}


@pytest.mark.parametrize(("command", "place"), COMMANDS.items())
def test_of_a_command_the_program_and_the_names_of_options_are_kept(command: str, place: str) -> None:
    """No value of an option, variable or argument is, whatever it looks like (B43)."""
    program, *words = command.split(" ")
    assert place_of(SimpleNamespace(command=program, args=words)) == place


@pytest.mark.parametrize(("url", "place"), URLS.items())
def test_of_a_url_the_host_and_readable_parts_of_the_path_are_kept(url: str, place: str) -> None:
    """A part that nobody can read may be as good as a key; user, password and query are left out (B43)."""
    assert place_of(url) == place


def test_the_secrets_of_a_command_are_known() -> None:
    """Values under secret names, logins in URLs, headers, and what a machine made up."""
    words = ["--api-key", "one", "--token=two", "SHOP_KEY=three", "db://bob:four@db/x", "--to", "/srv/orders"]
    words += ["--header", "Authorization: Bearer five", MADE, "--max-tokens", "100", "--key", "order_id"]
    env = {"SHOP_TOKEN": "six", "SHOP_URL": "https://x/?key=seven&page=2", "HOME": "/home/me"}
    found = {*in_command("shop", words, env)} - {""}
    assert found == {"one", "two", "three", "four", "five", MADE, "six", "seven"}


@pytest.mark.parametrize("words", [["--project", MADE], [f"--workspace-id={MADE}"], ["--project-ref", MADE]])
def test_where_a_server_works_is_no_secret(words: list[str]) -> None:
    """The agent looks for the id of its project in the results, and would not find it."""
    assert list(in_command("shop", words, {})) == []


def test_the_secrets_of_a_url_and_of_headers_are_known() -> None:
    """What of a URL is left out of the place, and values of headers without their scheme."""
    url = f"https://one@x.example.com/MyCompany/mcp/SECRETTOKEN/{MADE}?api_key=two&page=2"
    assert {*in_url(url), *hidden_parts(url)} - {""} == {"one", "two", "SECRETTOKEN", MADE}
    headers = {"Authorization": "Bearer three", "X-Api-Key": "four", "accept": "text/event-stream"}
    assert {*in_headers(headers)} == {"three", "four"}
