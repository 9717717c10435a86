"""What learners hold to whatever their luck: every agent trained, equal models treated alike."""
