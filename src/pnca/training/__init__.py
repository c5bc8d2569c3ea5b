"""The loop, its batches, its history and its progress bar: knows no formula."""
