# An empty bucket.
mc mb --quiet store/people
