"""The stores, one module or package each, found by the name of its entry point; they never import each other."""
