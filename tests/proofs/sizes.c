/* SPDX-License-Identifier: Apache-2.0 */
/* What the arithmetic of sizes has to return; read by frama-c alone, see check. Each function here calls the
   one of math.h, which is taken inline: the code is proved and not a contract of it. */
#include "base/numbers/math.h"

/* No assertion of the code fails. */
/*@ requires \false; assigns \nothing; */
void dao_assert_failed(const char *condition, const char *file, int line);

/* What provers of integers do not know of bits; check proves each line for each k, in words of bits. */
/*@ axiomatic powers {
      axiom range: \forall integer k; 0 <= k < 64 ==> 1 <= (1 << k) <= 9223372036854775808;
      axiom one_bit: \forall integer k; 0 <= k < 64 ==> ((1 << k) & ((1 << k) - 1)) == 0;
    } */
/*@ requires k < 64;
    ensures \result == ((uint64_t)~((1 << k) - 1) & value);
    ensures \result <= value < \result + (1 << k);
    ensures \result % (1 << k) == 0;
    assigns \nothing; */
uint64_t clear_low(uint64_t value, unsigned k);

/*@ requires k < 64;
    requires value + ((1 << k) - 1) <= UINT64_MAX;
    ensures value <= \result < value + (1 << k);
    ensures \result % (1 << k) == 0;
    assigns \nothing; */
uint64_t round_up(uint64_t value, unsigned k)
{
    uint64_t cleared = clear_low(value + ((UINT64_C(1) << k) - 1), k);
    uint64_t result = dao_round_up(value, UINT64_C(1) << k);
    //@ assert result == cleared;
    return result;
}

/*@ ensures left + right <= UINT64_MAX ==> \result == left + right;
    ensures left + right > UINT64_MAX ==> \result == UINT64_MAX;
    assigns \nothing; */
uint64_t add_capped(uint64_t left, uint64_t right)
{
    return dao_add_capped(left, right);
}

/*@ ensures \result == \max(left, right);
    assigns \nothing; */
uint64_t larger(uint64_t left, uint64_t right)
{
    return dao_larger(left, right);
}

/*@ ensures \result == \min(left, right);
    assigns \nothing; */
uint64_t smaller(uint64_t left, uint64_t right)
{
    return dao_smaller(left, right);
}

/* The quotient, rounded up, where it takes no 128 bits. */
/*@ requires bytes_per_second > 0;
    requires size_bytes * 1000000000 + bytes_per_second <= UINT64_MAX;
    ensures \result * bytes_per_second >= size_bytes * 1000000000;
    ensures size_bytes > 0 ==> (\result - 1) * bytes_per_second < size_bytes * 1000000000;
    ensures size_bytes == 0 ==> \result == 0;
    assigns \nothing; */
uint64_t transfer_ns(uint64_t size_bytes, uint64_t bytes_per_second)
{
    return dao_transfer_ns(size_bytes, bytes_per_second);
}
