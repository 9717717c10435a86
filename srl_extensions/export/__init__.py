"""Command `srl export`: trained models as folders for transformers or PEFT."""
