"""The bytes of code bundles: files under `state_dir/bundles`, one for each project that holds them."""
