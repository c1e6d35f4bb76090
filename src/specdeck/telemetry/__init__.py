"""What the server and the host say of themselves: /metrics, GPU and CPU samples. No arithmetic across cells."""
