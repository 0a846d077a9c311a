# SPDX-License-Identifier: Apache-2.0
"""The folder of interface declarations is complete, consistent and ignored by colcon."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "motion_nodes/interface_build/packages"
GOLDEN = json.loads((Path(__file__).parent / "golden_rihs01.json").read_text())
PACKAGES = sorted(path.parent for path in ROOT.glob("*/package.xml"))
FILES = sorted(f for kind in ("msg", "srv", "action") for f in ROOT.glob(f"*/{kind}/*"))
IMPLIED = {".msg": set(), ".srv": set(), ".action": {"action_msgs"}}


def test_colcon_ignores_the_folder():
    assert (ROOT / "COLCON_IGNORE").is_file()


def test_every_type_of_the_contract_is_declared_and_no_other():
    declared = {f.relative_to(ROOT).with_suffix("").as_posix() for f in FILES}
    assert declared == {*GOLDEN["released"], *GOLDEN["computed"]}


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda p: p.name)
def test_package_xml_names_exactly_the_packages_that_the_fields_use(folder):
    xml = ET.parse(folder / "package.xml").getroot()
    assert xml.get("format") == "3"
    assert xml.findtext("name") == folder.name
    assert xml.findtext("license") == "Apache-2.0"
    used = set()
    for file in FILES:
        if file.parts[-3] == folder.name:
            used |= set(re.findall(r"^(\w+)/[A-Z]", file.read_text(), re.M)) | IMPLIED[file.suffix]
    assert {d.text for d in xml.findall("depend")} == used - {folder.name}


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_a_declaration_is_plain_text_with_a_licence(file):
    text = file.read_bytes().decode("ascii")
    assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n")
    assert text.endswith("\n")
    assert max(map(len, text.splitlines())) <= 100
    assert not re.search(r"[ \t]+$", text, re.M)
