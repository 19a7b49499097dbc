"""What has to run: the plan of all jobs, their cost, and the state of each item. Free of torch."""
