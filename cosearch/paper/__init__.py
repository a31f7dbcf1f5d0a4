"""The paper's own numbers as printed, and the checks of them against each other."""
