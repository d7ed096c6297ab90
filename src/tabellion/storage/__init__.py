"""Files: content-addressed blobs and the lake of outputs, local or in object storage, written whole or not at all."""
