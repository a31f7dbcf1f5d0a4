"""The paper's own numbers: as printed, checked against each other, and beside ours."""
