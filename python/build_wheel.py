# SPDX-License-Identifier: Apache-2.0
"""Makes the package's wheel: a zip of the sources and of three files that describe them.

A back end of PEP 517 in the tree, since pip would fetch any other one from a network."""
import base64
import hashlib
import pathlib
import re
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent


def described(key):
    """Returns the value of a key in pyproject.toml, which a Python before 3.11 has no reader for."""
    return re.search(rf'^{key} = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1]


def metadata():
    return (f"Metadata-Version: 2.1\nName: {described('name')}\nVersion: {described('version')}\n"
            f"Summary: {described('description')}\nLicense: Apache-2.0\n"
            f"Requires-Python: {described('requires-python')}\n")


def digest_of(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    full_name = f"{described('name')}-{described('version')}"
    info = f"{full_name}.dist-info"
    files = {path.relative_to(ROOT).as_posix(): path.read_bytes()
             for path in sorted(ROOT.glob("dao/**/*.py"))}
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: dao\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(
        f"{path},sha256={digest_of(content)},{len(content)}\n" for path, content in files.items())
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    name = f"{full_name}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
    return name


def build_sdist(sdist_directory, config_settings=None):
    full_name = f"{described('name')}-{described('version')}"
    with tarfile.open(pathlib.Path(sdist_directory) / f"{full_name}.tar.gz", "w:gz") as archive:
        for path in [ROOT / "pyproject.toml", ROOT / "build_wheel.py", *sorted(ROOT.glob("dao/**/*.py"))]:
            archive.add(path, f"{full_name}/{path.relative_to(ROOT).as_posix()}")
    return f"{full_name}.tar.gz"
