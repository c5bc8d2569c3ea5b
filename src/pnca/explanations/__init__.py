"""The case behind an answer: its parts, who carries it, what is unusual; as text, figure and page."""

from pnca.explanations.case import Agreement, Column, Decision, Example, Explanation, Explanations, WhatIf

__all__ = ["Agreement", "Column", "Decision", "Example", "Explanation", "Explanations", "WhatIf"]
