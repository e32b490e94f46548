"""Jobs and what runs them: in this process, or in several local processes."""
