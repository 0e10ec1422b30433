"""The adversarial campaign: thousands of awkward inputs, each answer compared with an independent computation."""
