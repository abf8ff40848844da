"""Two agents, one the other's tool: an editor that has a researcher look things up.

To the editor the researcher is a tool: in a replay of the editor it is answered whole. Called by
itself, the researcher is an agent with a run of its own. The bug: one topic without a
source spoils the whole page.
"""

import asyncio

import stepfork

ARTICLES = {"tides": ["The moon pulls the sea."], "auroras": []}


@stepfork.tool
async def search(topic: str) -> list[str]:
    """Ask the archive."""
    await asyncio.sleep(0)
    return ARTICLES[topic]


@stepfork.model
async def summarise(texts: list[str]) -> str:
    """Ask a language model; this one joins what it gets."""
    return " ".join(texts) or "Nothing is known."


@stepfork.step
async def research(topic: str) -> dict:
    """The researcher: the root of a run of its own."""
    found = await search(topic)
    return {"topic": topic, "summary": await summarise(found), "sources": len(found)}


ask_researcher = stepfork.tool(research, name="ask_researcher")


@stepfork.step
async def edit(topics: list[str]) -> list[str]:
    """The editor: asks the researcher about all topics at once."""
    reports = await asyncio.gather(*(ask_researcher(topic) for topic in topics))
    for report in reports:
        if report["sources"] == 0:
            raise ValueError(f"no source on {report['topic']}")
    return [report["summary"] for report in reports]


if __name__ == "__main__":
    print(asyncio.run(edit(["tides", "auroras"])))
