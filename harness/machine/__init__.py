"""What the machine must have: images, programs, the doctor."""
