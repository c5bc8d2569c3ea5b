"""What is trained and what is kept, without scikit-learn: objectives, kernels, selection, fitted state."""
