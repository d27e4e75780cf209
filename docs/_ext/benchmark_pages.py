"""Makes a page in results/benchmarks/ of each file that the benchmark programs wrote."""

from pathlib import Path

HERE = Path(__file__).parents[1]


def _write_pages(app, config):
    folder = HERE / "results" / "benchmarks"
    folder.mkdir(exist_ok=True)
    names = {file.name for file in (HERE.parent / "benchmarks" / "results").glob("*.md")}
    for file in folder.glob("*.md"):
        if file.name not in names:
            file.unlink()
    for name in names:
        text = f"```{{include}} ../../../benchmarks/results/{name}\n:relative-images:\n```\n"
        page = folder / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app):
    app.connect("config-inited", _write_pages)
    return {"parallel_read_safe": True}
