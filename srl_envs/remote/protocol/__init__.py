"""The protocol srl.env.v1: environments.proto, and the module that `make protos` writes from it."""
