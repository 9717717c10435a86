"""LoRA adapters side by side on one base: settings, making, swapping and saving."""
