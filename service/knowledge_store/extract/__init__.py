"""From the bytes of a file to chunks with locators: decode -> structure -> pack within a budget."""
