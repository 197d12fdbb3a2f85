"""Compares what passes behind the gate with what passes bare, check by check.

compare.py BARE LOSSES VIA...   BARE and VIA are output folders of the suite; LOSSES lists `revision scenario check` that
are known to be lost. Exits with 1 if a check is lost that is not listed, or listed and not lost. A check that merely is
no longer there counts as lost: the suite itself would not notice.
"""

import glob
import json
import os
import re
import sys

REVISIONS = ("2025-11-25", "2026-07-28")
RANK = {"SUCCESS": 1, "WARNING": 2, "FAILURE": 3}
# There in one shape of the transport only.
OPTIONAL = {"server-sse-streams-functional"}


def load(folder):
    found = {}
    for revision in REVISIONS:
        for path in sorted(glob.glob(f"{folder}/{revision}/server-*/checks.json")):
            name = re.sub(r"-\d{4}-\d\d-\d\dT.*$", "", os.path.basename(os.path.dirname(path)))
            scenario = name[len("server-") :]
            with open(path, encoding="utf-8") as file:
                checks = [check for check in json.load(file) if check["status"] in RANK]
            for check in checks:
                key = (revision, scenario, check["id"])
                found[key] = max(found.get(key, 0), RANK[check["status"]])
    return found


def main(bare, losses, *vias):
    good = {key for key, rank in load(bare).items() if rank == RANK["SUCCESS"]}
    with open(losses, encoding="utf-8") as file:
        known = {tuple(line.split()) for line in file if line.strip() and not line.startswith("#")}
    failed = False
    for via in vias:
        found = load(via)
        lost = {key for key in good if found.get(key) != RANK["SUCCESS"] and key[2] not in OPTIONAL}
        for revision in REVISIONS:
            all_of = [key for key in good if key[0] == revision]
            kept = [key for key in all_of if key not in lost]
            print(f"{os.path.basename(via)} {revision}: {len(kept)} of {len(all_of)} checks kept")
        for key in sorted(lost - known):
            print("  lost:", *key)
        for key in sorted(known - lost):
            print("  listed as lost, and kept:", *key)
        failed = failed or lost != known
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
