"""Commands of the studies: parse options, call the experiments, print."""
