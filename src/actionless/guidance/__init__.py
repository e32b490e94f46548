"""How something learnt offline helps an agent that acts: the kinds of guidance and what they share."""
