"""Programming problems: generated ones, and files in the layouts of HumanEval and MBPP."""
