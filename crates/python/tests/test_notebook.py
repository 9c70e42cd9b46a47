"""The example notebook runs from its first cell to its last."""

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[3] / "examples/notebook/tandem.ipynb"


def outputs(notebook: Any, kind: str) -> list[str]:
    """Everything of one MIME type that its cells showed."""
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return [output.data[kind] for output in shown if kind in output.get("data", {})]


def test_the_notebook_runs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    folder = {"metadata": {"path": str(NOTEBOOK.parent)}}
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources=folder).execute()
    joint, own = outputs(notebook, "text/html")
    assert '<mark class="cloud"' in joint + own, "some word is coloured"
    assert len(outputs(notebook, "image/png")) == 2, "two plots"
