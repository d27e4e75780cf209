"""The loop around a method: passes, stopping, traces, callbacks, checkpoints."""
