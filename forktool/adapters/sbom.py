"""The CycloneDX document of a patched wheel: the only import of `cyclonedx`.

The wheel is a component whose pedigree names the published wheel as ancestor and each patch with its diff
(https://cyclonedx.org/use-cases/pedigree); PEP 770 gives its place, dist-info/sboms/.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from forktool.core.provenance import CarriedPatch, Provenance
from forktool.errors import IntegrityError, ToolMissingError

if TYPE_CHECKING:
    from cyclonedx.model.component import Patch


def make_sbom(
    provenance: Provenance, *, project: str, diffs: Mapping[str, bytes], timestamp: datetime
) -> bytes:
    """Write the document, CycloneDX 1.6 in JSON: the same bytes for the same input.

    Args:
        provenance: what the wheel carries.
        project: the normalised name of the wheel's project.
        diffs: the text of each patch by its name.
        timestamp: of the document; the published wheel's, in UTC, and not now.

    Raises:
        ToolMissingError: the library is not installed.
    """
    try:
        from cyclonedx.model import HashAlgorithm, HashType, Property
        from cyclonedx.model.bom import Bom, BomMetaData
        from cyclonedx.model.component import Component, ComponentType, Pedigree
        from cyclonedx.output.json import JsonV1Dot6
        from packageurl import PackageURL
    except ImportError as error:
        raise ToolMissingError(
            f"{error.name} is not installed", hint="pip install cyclonedx-python-lib"
        ) from error
    published = Component(
        name=project,
        version=provenance.base_version,
        type=ComponentType.LIBRARY,
        bom_ref=f"pkg:pypi/{project}@{provenance.base_version}",
        purl=PackageURL(
            "pypi", None, project, provenance.base_version, {"file_name": provenance.published_filename}
        ),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=provenance.published_sha256)],
    )
    wheel = Component(
        name=project,
        version=provenance.version,
        type=ComponentType.LIBRARY,
        bom_ref=f"pkg:pypi/{project}@{provenance.version}",
        purl=PackageURL("pypi", None, project, provenance.version),
        pedigree=Pedigree(
            ancestors=[published],
            patches=[_patch(patch, diffs.get(patch.name)) for patch in provenance.patches],
            notes=f"{provenance.package} {provenance.base_tag} with {len(provenance.patches)} patches",
        ),
        properties=[
            Property(name="forktool:base-tree", value=provenance.base_tree),
            Property(name="forktool:tree", value=provenance.tree),
            Property(name="forktool:series-digest", value=provenance.series_digest),
        ],
    )
    bom = Bom(
        # One wheel has one serial number, however often it is made.
        serial_number=uuid5(NAMESPACE_URL, f"{wheel.purl}#{provenance.tree}"),
        metadata=BomMetaData(component=wheel, timestamp=timestamp),
    )
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def schema_problem(content: bytes) -> str | None:
    """What the schema of CycloneDX 1.6 finds wrong, or None.

    Raises:
        ToolMissingError: the validator is not installed.
    """
    try:
        from cyclonedx.exception import MissingOptionalDependencyException
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator
    except ImportError as error:
        raise ToolMissingError(
            f"{error.name} is not installed", hint="pip install forktool[wheel]"
        ) from error
    try:
        found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.decode("utf-8"))
    except MissingOptionalDependencyException as error:
        raise ToolMissingError(
            "the CycloneDX schema validator is not installed", hint="pip install forktool[wheel]"
        ) from error
    except ValueError as error:
        return f"not JSON: {error}"
    return str(found).splitlines()[0] if found is not None else None


def _patch(patch: CarriedPatch, diff: bytes | None) -> Patch:
    from cyclonedx.model import AttachedText, Encoding, XsUri
    from cyclonedx.model.component import Diff, Patch, PatchClassification
    from cyclonedx.model.issue import IssueClassification, IssueType

    attached = None
    if diff is not None:
        try:
            attached = AttachedText(content=diff.decode("utf-8"), content_type="text/x-diff")
        except UnicodeDecodeError:
            attached = AttachedText(
                content=base64.b64encode(diff).decode(),
                content_type="text/x-diff",
                encoding=Encoding.BASE_64,
            )
    return Patch(
        type=PatchClassification(patch.kind),
        diff=Diff(text=attached) if attached is not None else None,
        resolves=[
            IssueType(
                type=IssueClassification.DEFECT,
                name=patch.name,
                description=patch.subject,
                references=[XsUri(url) for url in patch.references],
            )
        ],
    )


def check_sbom(content: bytes) -> None:
    """Refuse a document that its schema does.

    Raises:
        IntegrityError: naming the first problem.
        ToolMissingError: the validator is not installed.
    """
    problem = schema_problem(content)
    if problem is not None:
        raise IntegrityError(f"the CycloneDX document is not valid: {problem}")
