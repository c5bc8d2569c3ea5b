"""Which models each figure of the ablation shows, and what their names mean."""

#: Models by what is changed in them.
ABLATION_PANELS = {
    "kernel": [
        *("PNCA (paper)", "30 d features", "100 d features", "exact"),
        *("exact + background .01", "exact + background .1", "exact + background 1"),
    ],
    "particles": [
        *("PNCA (paper)", "independent", "exact", "exact independent"),
        *("exact + background .1", "exact + background .1 independent"),
    ],
    "bandwidth": ["h=1", "h=2", "PNCA (paper)", "h=16", "exact h=1", "exact h=2", "exact", "exact h=16"],
}
#: The paper's own settings, and what is changed, as a figure names them.
ABLATION_NAMES = {
    "PNCA (paper)": "paper: 10 d random features, functional gradient, bandwidth 4",
    "30 d features": "30 d random features",
    "100 d features": "100 d random features",
    "exact": "exact kernel",
    "exact + background .01": "exact kernel, background mass .01",
    "exact + background .1": "exact kernel, background mass .1",
    "exact + background 1": "exact kernel, background mass 1",
    "independent": "plain gradient",
    "exact independent": "exact kernel, plain gradient",
    "exact + background .1 independent": "exact kernel, background mass .1, plain gradient",
    "h=1": "bandwidth 1",
    "h=2": "bandwidth 2",
    "h=16": "bandwidth 16",
    "exact h=1": "exact kernel, bandwidth 1",
    "exact h=2": "exact kernel, bandwidth 2",
    "exact h=16": "exact kernel, bandwidth 16",
}
