"""The laboratory beside the library: the paper's data, baselines, experiments and reports.

Nothing in ``pnca`` imports this package. It adds the commands ``demo``, ``reproduce``, ``report`` and
``benchmark`` to the command line through the entry-point group ``pnca.commands``.
"""
