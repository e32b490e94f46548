"""Reports: runs as one HTML page, and as figures for a paper."""
