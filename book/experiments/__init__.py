"""What chapters show as stored results: the programs that compute them."""
