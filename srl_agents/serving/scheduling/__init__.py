"""Parts of the scheduler: requests and their counts, fair queues, routing."""
