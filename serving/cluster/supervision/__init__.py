"""What watches parts that die, and decides when and with which requests they begin again."""
