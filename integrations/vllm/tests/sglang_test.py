"""The hook that docs/how-to/inference.md shows for SGLang, in SGLang's own group on two ranks.

SGLang has no package for CPUs. Beside vLLM its groups can be made: pip install --no-deps sglang==0.5.23, then orjson
and IPython.
"""

import importlib.util
import re

import pytest
from conftest import HERE, job

pytestmark = pytest.mark.skipif(importlib.util.find_spec("sglang") is None, reason="SGLang is not installed")


def test_group_coordinator(tmp_path):
    page = (HERE.parents[2] / "docs/how-to/inference.md").read_text(encoding="utf-8")
    hook = next(text for text in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "HookRegistry" in text)
    (tmp_path / "tutti_hook.py").write_text(hook)
    ended = job(2, "sglang", tmp_path)
    assert ended.returncode == 0, ended.stdout
