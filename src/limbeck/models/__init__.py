"""Models: named, trained, packed as ONNX, and run."""
